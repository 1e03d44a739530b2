python3 -c "
import socket, subprocess, sys
s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen()
r = subprocess.run([\"baton\", \"up\", \"-m\", sys.argv[1], \"--port\", str(s.getsockname()[1]), \"--log-level\", \"error\"], capture_output=True, text=True)
print(r.stdout + r.stderr.replace(str(s.getsockname()[1]), \"PORT\"), end=\"\"); sys.exit(r.returncode)" "$BATON_TEST_MODEL" 2>&1 | sed "s/^2[^ ]*Z //"
