baton role --url http://127.0.0.1:9 decode-0 prefill
