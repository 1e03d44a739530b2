# A package that nobody used for long goes for weights that are new, and that is told.
export BATON_CACHE_DIR=$PWD/cache
old=0123456789abcdef0123456789abcdef new=fedcba9876543210fedcba9876543210
mkdir -p cache/packages
for f in $old $new; do truncate -s 100M cache/packages/$f.bpk; printf 'An old model\nw8a8 pow2\n' > cache/packages/$f.lock; done
touch -d '2025-01-31' cache/packages/$old.bpk
yes 'The quick brown fox jumps over the lazy dog.' | head -n 8 > t.txt
baton perplexity --engine decode -m "$BATON_TEST_MODEL" -f t.txt -c 32 --chunks 1 --cache-limit 400M 2>&1 > out | grep removed
ls cache/packages cache/weights | grep -c '\.b..$'
baton perplexity --engine decode --weights fp4 -m "$BATON_TEST_MODEL" -f t.txt -c 32 --chunks 1 -q --cache-limit 250M > out
ls cache/packages cache/weights | grep -c '\.b..$'
