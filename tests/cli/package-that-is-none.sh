printf 'BATONNPU and more' > x.npu; baton run -m "$BATON_TEST_MODEL" --package x.npu -p x; baton inspect x.npu
