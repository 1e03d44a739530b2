# The keys that scripts rely on, and a page that holds the same object and fetches nothing.
echo "40 300 1200 77" > lengths
baton plan -m smollm2-135m --prefill hexagon-v75 --decode adreno-750 --trace lengths --json -o plan.html > plan.json
wc -l < plan.json
sed 's/"version".*//' plan.json | grep -oE '"[a-z0-9_]+":' | sort -u
grep -o '"made_by".*' plan.json
sed -n '/type="application\/json"/{n;p}' plan.html | diff - plan.json && echo the same
grep -cE '(src|href)=|https?:|@import|url\(' plan.html
# The shapes of a choice with one context are a file that compiling takes.
baton plan -m smollm2-135m --prefill hexagon-v75 --decode adreno-750 --trace lengths --json --by programs --shape-policy chunk:512+tail:128 |
    sed 's/.*"shapes": \(\[\[[^}]*\]\]\).*/\1/' | tee shapes.json
baton padding lengths --shape-policy enumerated:shapes.json --shape-policy chunk:512+tail:128 -c 2048 | tail -2
