# Each ends with its own line; which engine has none is said by name.
exec 2>&1
for kind in sparse:0 sparse:1.5 thin sparse:0.2,rows=12 sparse:0.2,dense=-1 sparse:0.2,heads; do
    baton compile -m "$BATON_TEST_MODEL" --attention "$kind" -o x; echo $?
done
printf 'a b c d e f g h i j k l m n o p q r s t u v w x y z\n%.0s' 1 2 3 4 5 6 7 8 > text
baton perplexity -m "$BATON_TEST_MODEL" -f text -c 32 --engine host --attention sparse -q; echo $?
baton perplexity -m "$BATON_TEST_MODEL" -f text -c 32 --engine decode --attention sparse -q; echo $?
baton compile -m "$BATON_TEST_MODEL" --attention sparse --npu-ops all -o x -q; echo $?
baton compile -m "$BATON_TEST_MODEL" --attention sparse:0.2,rows=16 --shape-policy chunk:100 -o x -q; echo $?
baton compile -m "$BATON_TEST_MODEL" --attention sparse -c 9000 -o x -q; echo $?
baton inspect "$BATON_TEST_MODEL" --heads; echo $?
test -e x && echo made
true
