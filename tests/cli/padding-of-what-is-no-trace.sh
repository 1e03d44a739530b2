printf '12\n13 x\n' > lengths
baton padding lengths
