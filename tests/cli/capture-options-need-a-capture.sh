baton-gateway -m smollm2 --capture-text
echo $?
baton up smollm2 --capture-seal x
