# One page, modelled and measured tracks apart; what it draws is what the answer says.
for s in serial ooo; do
    baton run -q -m "$BATON_TEST_MODEL" -c 512 --profile hexagon-v75 --decode-profile adreno-750 --schedule $s \
        -p "$(seq 1 100 | tr '\n' ' ')" -n 3 --json --timeline run.json > out
    grep -oE '"name": "(modelled|measured): (hexagon-v75|companion|link|decode)[^"]*"' run.json
    grep -oE '"schedule": *"[a-z]*"' run.json
    for part in prefill decode; do # of the answer's device and of the file, to the microsecond
        told=$(sed 's/.*"device": //; s/"host":.*//' out | grep -oE "\"${part}_ms\": *[0-9.]*" | grep -oE '[0-9.]+$')
        drawn=$(grep -oE "\"modelled $part\": \"[0-9.]*" run.json | grep -oE '[0-9.]+$')
        [ "$(printf '%.3f' "$told")" = "$drawn" ] && echo "$part: the same"
    done
    grep -cE '"measured (prefill|decode)": "[1-9]' run.json
    grep -c '"name": "decode step"' run.json
done
baton run -m "$BATON_TEST_MODEL" -c 512 --profile hexagon-v75 --decode-profile adreno-750 --schedule ooo -p one -n 2 \
    2>&1 > /dev/null | grep -o 'computed, .*'
baton run -m x -p x --timeline run.html
baton run -m x -p x --profile hexagon-v75 --decode-profile adreno-750 --timeline run.svg
baton run -m x -p x --profile hexagon-v75 --decode-profile adreno-750 --speculate 4 --timeline run.html
baton run --url http://127.0.0.1:1 -p x --timeline run.html
