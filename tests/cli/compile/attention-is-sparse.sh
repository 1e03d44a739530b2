# A package that attends sparsely: what it says of itself, and that the text is read to the end. Rows below 16 are dense.
printf 'The rain in the hills had not stopped for a week, and the river was high. %.0s' 1 2 3 > calib
baton compile -m "$BATON_TEST_MODEL" --attention sparse:0.3,dense=16 --calib calib -q > made
sed -n 's/^attention .*/&/p' made
package=$(sed -n 's/^\(\/.*\.bpk\)  .*/\1/p' made)
baton inspect "$package" --heads > heads
sed -n '1p' heads
sed -n '2s/recall .*/recall/p' heads
sed -n '5,$p' heads | wc -l
awk 'NR > 4 && ($3 <= 0 || $3 > 1 || $4 < 0.5 || $4 > 1) { bad++ } END { print bad + 0, "out of range" }' heads
baton inspect "$package" --json | grep -oE '"(attention|dense_rows)": [^,]*'
baton inspect "$package" --json | grep -c '"recall":'
printf 'the cat sat on the mat and the dog lay by the door while rain fell. %.0s' 1 2 3 4 5 6 > text
baton perplexity -m "$BATON_TEST_MODEL" -f text -c 64 --chunks 1 --package "$package" --against npu -q | sed 's/perplexity [0-9.]* +- [0-9.]*/perplexity/; s/perplexity [0-9.]* there/perplexity there/; s/, [0-9.]* tokens.s//; s/KL [0-9.]*, 99th percentile [0-9.]*/KL/; s/[0-9.]*$//; s/^[0-9.]* %/P %/'
baton perplexity -m "$BATON_TEST_MODEL" -f text -c 64 --chunks 1 --package "$package" --attention sparse:0.4 -q; echo $?
shared=$(baton compile -m "$BATON_TEST_MODEL" --attention sparse:0.3,dense=16,group,rows=16 --calib calib -q | sed -n 's/^\(\/.*\.bpk\)  .*/\1/p')
baton inspect "$shared" --heads > heads
sed -n '1,3p' heads
grep -o '^heads .*recall' heads
awk 'NR > 6 && $1 == layer && int($2 / 3) == int(head / 3) && ($3 != share || $5 != unit) { bad++ } { layer = $1; head = $2; share = $3; unit = $5 } END { print bad + 0, "heads of a group apart" }' heads
baton inspect "$shared" --json | grep -oE '"(attention|choosing_rows|choosing_group)": [^,]*'
baton perplexity -m "$BATON_TEST_MODEL" -f text -c 64 --chunks 1 --package "$shared" -q | grep "rows attended"
dense=$(baton compile -m "$BATON_TEST_MODEL" -q | sed -n 's/^\(\/.*\.bpk\)  .*/\1/p')
baton inspect "$dense" --heads; echo $?
