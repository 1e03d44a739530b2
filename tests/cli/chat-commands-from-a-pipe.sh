printf '/system One.\\\nTwo.\n/system\n/save talk.md\n\n/exit\nnot read\n' | baton chat --url http://127.0.0.1:1
cat talk.md
