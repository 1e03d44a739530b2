printf '5 6 7\n' > lengths
baton trace convert lengths -o ./lengths
echo $?; cat lengths
