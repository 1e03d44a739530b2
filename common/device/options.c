/* One row for each option of the devices that work is priced with. */
#include "device/options.h"
#include "device/forecast.h"

static const bt_opt rows[] = {
    {.group = "Devices", .name = "decode-profile", .value = "PROFILE", .type = BT_OPT_STRING,
     .example = "adreno-750",
     .help = "with --profile: tell in every answer what this pair of devices would have taken"},
    {.group = "Devices", .name = "decode-weights", .value = "FORM", .type = BT_OPT_CHOICE, .def = "f16",
     .help = "weights on the device that decodes"},
    {.group = "Devices", .name = "link", .value = "LINK", .type = BT_OPT_STRING, .example = "10,50us",
     .help = "between the two devices: " BT_LINK_HELP},
    {.group = "Devices", .name = "pace", .value = "PACE", .type = BT_OPT_STRING, .def = "off",
     .example = "device:20",
     .help = "device:K lets results go no earlier than K times what devices and link would have taken"},
    {.group = "Forecast", .name = "draws", .value = "N", .type = BT_OPT_INT, .def = "100", .lo = 0,
     .hi = BT_FORECAST_MAX_DRAWS, .example = "1000",
     .help = "draws of what the devices may really take, by their calibration; 0: none"},
    {.group = "Forecast", .name = "bounds", .type = BT_OPT_FLAG,
     .help = "compare a calibrated device with one that is a bound by its data sheet"},
};
const bt_opt_group bt_device_opts = BT_OPT_GROUP(rows);
