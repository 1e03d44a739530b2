printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,600,109\n' |
    baton padding - --json --policy chunk:256+tail --policy range:16-1000
