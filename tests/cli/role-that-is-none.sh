baton role decode-0 gateway
