BATON_GATEWAY=tcp://10.0.0.1:5600,tcp://10.0.0.2:5600 baton-prefill --print-config | grep gateway
