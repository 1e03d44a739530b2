/* Declares one variant's float kernels. Included once for each variant with BT_VARIANT(name) giving its symbol, so
 * that every file sees the same list: the table's columns of floats (int_variant.h has the others'). No include
 * guard on purpose. */
bt_matmul_fn BT_VARIANT(bt_matmul);
bt_matmul8_fn BT_VARIANT(bt_matmul8);
bt_matmul4_fn BT_VARIANT(bt_matmul4);
bt_fp4_sums_fn BT_VARIANT(bt_fp4_sums);
bt_rmsnorm_fn BT_VARIANT(bt_rmsnorm);
bt_add_fn BT_VARIANT(bt_add);
bt_silu_mul_fn BT_VARIANT(bt_silu_mul);
bt_rope_fn BT_VARIANT(bt_rope);
bt_f32_to_f16_fn BT_VARIANT(bt_f32_to_f16);
bt_f16_to_f32_fn BT_VARIANT(bt_f16_to_f32);
bt_attn_fn BT_VARIANT(bt_attn);
bt_attn_span_fn BT_VARIANT(bt_attn_span);
bt_attn_merge_fn BT_VARIANT(bt_attn_merge);
bt_attn_some_fn BT_VARIANT(bt_attn_some);
bt_edge_quantise8_fn BT_VARIANT(bt_edge_quantise8);
bt_edge_quantise16_fn BT_VARIANT(bt_edge_quantise16);
bt_edge_estimate8_fn BT_VARIANT(bt_edge_estimate8);
bt_edge_scale8_fn BT_VARIANT(bt_edge_scale8);
bt_edge_scale16_fn BT_VARIANT(bt_edge_scale16);
bt_edge_scale64_fn BT_VARIANT(bt_edge_scale64);
bt_edge_rotate_fn BT_VARIANT(bt_edge_rotate);
bt_kv_store_fn BT_VARIANT(bt_kv_store);
