# An option that once had another name is refused with the name that it has in that program, on the command line and in
# the environment. The value of the new name counts, whatever the environment has under the old one. Elsewhere the word
# is another option, or keeps its meaning.
while read -r program old new value; do
    cli=$(echo "$program" | tr _ ' ')
    env=BATON_$(echo "$old" | tr 'a-z-' 'A-Z_')
    say() { echo "$cli: exit $1: $(sed "s/ Try '.*//" err)"; }
    $cli "--$old" "$value" > out 2> err; say $?
    $cli "--$old=$value" --help > out 2> err; say $?
    env "$env=$value" $cli --print-config > out 2> err; say $?
    env "$env=$value" $cli "--$new" "$value" --print-config > out 2> err; say "$? with --$new"
done << 'END'
baton-prefill  decode-slots slots        3
baton_keygen   prefill      prefill-keys 3
baton_keygen   decode       decode-keys  3
baton_padding  policy       shape-policy chunk:256
baton_plan     policy       shape-policy chunk:256
baton_plan     recipe       quant        w8a8
baton_plan     window       arenas       3
baton_timeline window       arenas       3
END
of() { grep -E "^($1)[[:space:]]" out; }
baton up --prefill 2 --decode 2 --policy prefix --slots 3 --print-config > out; of 'prefill|decode|policy|slots'
baton simulate --window 32M --policy prefix --print-config > out; of 'window|policy'
BATON_WINDOW=32M baton-prefill --print-config > out; of window
