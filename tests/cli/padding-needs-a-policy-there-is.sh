echo 12 | baton padding - --policy fastest
