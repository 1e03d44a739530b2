printf '1, 16, 17\n256 257\n600\n' > lengths
baton padding lengths -c 1024
