# A name that opens a comment or a script of HTML leaves each page whole: no comment, and no script but the page's own.
name='<!--<script>'
printf '{"timestamp": 0, "input_length": 100, "output_length": 5}\n{"timestamp": 9, "input_length": 40, "output_length": 5}\n' > "$name"
printf '{"name": "mine", "title": "%s", "operators": {"linear": ["int8"]}, "time": {"stack": "none",
    "f16_ops_per_us": 1000000, "memory_bytes_per_us": 50000}}' "$name" > "$name.json"
baton trace plot "$name" -o trace.html
baton simulate "$name" -m llama-3.1-8b --prefill 1:a100 --decode 1:a100 --report simulate.html > /dev/null
baton plan -q -m smollm2-135m --prefill "./$name.json" --decode adreno-750 --trace "$name" -o plan.html > /dev/null
for page in trace simulate plan; do
    count() { grep -c "$1" $page.html; }
    echo "$page: $(count '<!--') comments, $(count '<script') scripts, $(count '</script>') ends, names: $(grep -o 'u003c!--.u003cscript>\|&lt;!--&lt;script&gt;' $page.html | sort -u)"
done
