printf '5 6 7\n' > lengths
baton trace info lengths --seed 3
echo $?
baton trace plot lengths
echo $?
baton trace cut lengths --json
echo $?
baton trace frobnicate lengths
