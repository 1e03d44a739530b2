# A seeded trace as JSON lines, and rows counted by another program.
awk 'BEGIN { x = 20231116
    for (i = 0; i < 3000; i++) {
        x = x * 16807 % 2147483647; n = 1 + x % 1500
        x = x * 16807 % 2147483647; if (x % 10 == 0) n += x % 9000
        printf "{\"timestamp\": %d, \"input_length\": %d, \"output_length\": 1}\n", i, n
    } }' > trace.jsonl
awk -F '[ ,]+' '
    function up(n, from) { while (from < n) from *= 2; return from }
    function chunks(n, size, tail) { return int(n / size) * size + (n % size ? (tail ? up(n % size, tail) : size) : 0) }
    { n = $4; rows["pow2"] += n > 8192 ? 8192 + up(n - 8192, 16) : up(n, 16); rows["max-pad"] += chunks(n, 8192, 0)
      rows["chunk:1024"] += chunks(n, 1024, 0); rows["chunk:512"] += chunks(n, 512, 0); rows["chunk:256"] += chunks(n, 256, 0)
      rows["chunk:128"] += chunks(n, 128, 0); rows["chunk:256+tail"] += chunks(n, 256, 16); rows["chunk:512+tail:32"] += chunks(n, 512, 32) }
    END { for (p in rows) print p, rows[p] }' trace.jsonl | sort > expected
baton padding trace.jsonl | awk 'NR > 3 { print $1, $NF }' | sort > got
diff expected got && wc -l < got
