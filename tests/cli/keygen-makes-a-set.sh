baton keygen keys; ls keys; stat -c %a keys/gateway.secret; cut -d' ' -f2- keys/allow
baton keygen keys decode-1:decode,prefill --prefill 2 --json; ls keys
baton keygen keys --prefill 0 decode-1:decode,prefill decode-2; cut -d' ' -f2- keys/allow
baton keygen keys
