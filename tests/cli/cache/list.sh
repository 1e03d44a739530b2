# Files that a program would have made, by hand; and foreign ones, which are none of the cache's.
export BATON_CACHE_DIR=$PWD/cache TZ=UTC
baton cache list | sed "s,$PWD,HERE,"
one=0123456789abcdef0123456789abcdef two=fedcba9876543210fedcba9876543210
mkdir -p cache/packages cache/weights cache/ids
truncate -s 1100M cache/packages/$one.bpk
printf 'TinyLlama 1.1B\nw8a8 pow2\n' > cache/packages/$one.lock
truncate -s 100K cache/weights/$two.btw
printf 'Another\033[31m model\nf16\n' > cache/weights/$two.lock
truncate -s 3K cache/weights/$one.btw.a1b2c3
truncate -s 32 cache/ids/$two.id1
touch -d '2025-01-31 12:00 UTC' cache/*/*.lock cache/packages/$one.bpk cache/weights/$two.btw cache/weights/$one.btw.a1b2c3 cache/ids/$two.id1
echo mine > cache/notes.txt; echo mine > cache/packages/notes.bpk; echo mine > cache/packages/$two.bpk.old
ln -s /etc/passwd cache/packages/$two.bpk; mkdir cache/weights/$one.btw; mkfifo cache/ids/$one.id1
baton cache list --cache-limit 2G | sed "s,$PWD,HERE,"
BATON_CACHE_LIMIT=1M baton cache list | tail -n 1 | sed "s,$PWD,HERE,"
baton cache list --json | grep -oE '"(folder|limit_bytes|bytes|files|kind|name|model|recipe|last_used_s|in_use|half_made|path)":' | sort | uniq -c
