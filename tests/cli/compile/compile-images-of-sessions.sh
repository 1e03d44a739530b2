# The default package from the cache, where other tests look for it too: an image as large as the session maps.
package=$(baton compile -m "$BATON_TEST_MODEL" -q --images images | tee made | sed -n 's/^\(\/.*\.bpk\)  .*/\1/p')
grep image made
ls images
mapped=$(baton inspect "$package" --json | grep -o '"mapped_bytes": [0-9]*' | tr -dc 0-9)
test "$(stat -c %s images/session-0.img)" = "$mapped" && echo as large as the session
rm -r images
baton compile -m "$BATON_TEST_MODEL" -q --images made/images > out || echo exit $?
