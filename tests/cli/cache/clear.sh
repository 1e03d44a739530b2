# Named files go, the rest and foreign files stay; without --yes nothing goes where nobody can be asked.
export BATON_CACHE_DIR=$PWD/cache
one=0123456789abcdef0123456789abcdef two=fedcba9876543210fedcba9876543210 three=00000000000000000000000000000000
mkdir -p cache/packages cache/weights
for f in packages/$one.bpk packages/$two.bpk packages/$three.bpk weights/$one.btw weights/$two.btw.a1b2c3; do truncate -s 2K cache/$f; done
printf 'A model\nw8a8\n' > cache/packages/$one.lock; printf 'A model\nf16\n' > cache/weights/$one.lock; echo 'B model' > cache/packages/$two.lock
echo mine > cache/packages/notes.txt; ln -s notes.txt cache/packages/11111111111111111111111111111111.bpk
baton cache clear 2>&1 | tail -n 1
baton cache clear no-such-model --yes
baton cache clear 012 --yes
(cd cache && find . -type f -name '*.b*' | sort)
baton cache clear 'b MOD' --yes
flock cache/packages/$three.lock baton cache clear packages weights -y | sort
(cd cache && find . ! -type d | sort)
baton cache clear --yes --json | grep -oE '"(bytes|removed|kept)":'
baton cache clear --yes
(cd cache && find . ! -type d | sort)
baton cache clean
baton cache list packages
