#ifndef TESTS_GOLDEN_SMOLLM2_H
#define TESTS_GOLDEN_SMOLLM2_H
#include <stddef.h>
#include <stdint.h>

/* The default model's answers, greedy, up to 48 tokens: FP32 arithmetic on the exact dequantised weights, the same ids
 * from two independent engines. `close` has bit i set where the two highest logits of step i are less than 0.1 apart,
 * so that another rounding may choose the other one. top5: of the first token. */
typedef struct golden_smollm2 {
    const char *system, *prompt; /* a chat where system is not NULL; "" : without a system message */
    size_t n;
    int32_t ids[48];
    uint64_t close;
    const char *text, *finish_reason;
    struct {
        int32_t id;
        float logit;
    } top5[5]; /* completions only */
} golden_smollm2;

static const golden_smollm2 golden_smollm2_cases[] = {
    {.prompt = "The capital of France is", .n = 29,
     .ids = {7042, 30, 198, 198, 504, 2988, 314, 42, 216, 34, 32, 33, 40, 29, 32,
             33,   29, 34,  34,  216, 33,   34,  42, 33,  34, 42, 37, 35, 30},
     .close = 0x5800000, .finish_reason = "stop", .text = " Paris.\n\nThe answer is: 2018-01-22 12:12:53.",
     .top5 = {{7042, 17.3713f}, {260, 14.8886f}, {4528, 13.2450f}, {2250, 13.0095f}, {1315, 12.9515f}}},
    {.prompt = "In 1969, the first humans", .n = 48,
     .ids = {288, 4549, 335,  260,  6783,  592, 27639, 24955, 284,   33371, 476, 32110, 3718, 18,   20604, 8873,
             30,  198,  198,  504,  17600, 216, 33,    33,    4527,  436,   253, 7709,  8421, 338,  20786, 260,
             970, 327,  1774, 1898, 6141,  30,  378,   6783,  11318, 436,   253, 21651, 288,  7164, 506,   26171},
     .close = 0x800000000000, .finish_reason = "length",
     .text = " to walk on the moon were Neil Armstrong and Edwin \"Buzz\" Aldrin.\n\nThe Apollo 11 mission w"
             "as a historic feat that paved the way for future space exploration. The moon landing was a"
             " testament to humanity's ingenuity",
     .top5 = {{288, 25.4628f}, {592, 22.6837f}, {2042, 22.1947f}, {335, 21.8238f}, {6612, 21.6533f}}},
    {.prompt = "To make a good cup of tea, first", .n = 48,
     .ids = {346,   737, 288,  25456, 357, 30,   198, 198,  504,  808, 1833, 314,  288, 25456, 253, 1123,
             7118,  282, 7188, 30,    669, 314,  253, 1035, 2232, 980, 30,   3508, 28,  346,   737, 288,
             25456, 253, 1123, 7118,  282, 7188, 30,  669,  314,  253, 1035, 2232, 980, 30,    198, 198},
     .close = 0x0, .finish_reason = "length",
     .text = " you need to brew it.\n\nThe first step is to brew a good cup of tea. This is a very simple "
             "process. First, you need to brew a good cup of tea. This is a very simple process.\n\n",
     .top5 = {{346, 19.3548f}, {28, 18.4300f}, {392, 17.3252f}, {282, 17.2113f}, {919, 16.7902f}}},
    {.system = "", .prompt = "Name three fruits.", .n = 14,
     .ids = {33, 30, 12619, 12310, 198, 34, 30, 1816, 5120, 198, 35, 30, 4924, 3030}, .close = 0x0,
     .finish_reason = "stop", .text = "1. Bananas\n2. Oranges\n3. Grapes"},
};
enum { GOLDEN_SMOLLM2_COUNT = sizeof golden_smollm2_cases / sizeof *golden_smollm2_cases };
#endif
