baton keygen keys; ls keys; stat -c %a keys/gateway.secret; baton keygen keys
