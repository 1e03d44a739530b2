/* Declares one variant's kernels. Included once for each variant with BT_VARIANT(name) giving its symbol, so
 * that every file sees the same list: the table's columns. No include guard on purpose. */
bt_matmul_fn BT_VARIANT(bt_matmul);
bt_rmsnorm_fn BT_VARIANT(bt_rmsnorm);
bt_add_fn BT_VARIANT(bt_add);
bt_silu_mul_fn BT_VARIANT(bt_silu_mul);
bt_rope_fn BT_VARIANT(bt_rope);
bt_f32_to_f16_fn BT_VARIANT(bt_f32_to_f16);
bt_f16_to_f32_fn BT_VARIANT(bt_f16_to_f32);
bt_attn_fn BT_VARIANT(bt_attn);
