baton profiles --json | grep -o '"name": "[a-z0-9-]*"'
