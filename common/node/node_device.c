/* From options to inputs of device/, and from prices to messages. */
#include "node/node_device.h"
#include "device/forecast.h"

#include <stdio.h>
#include <string.h>

bt_err bt_node_device_check(const bt_node_options *o, bt_fault *fault)
{
    bt_pace pace;
    bt_link link;
    const bt_err e = o->link ? bt_link_parse(&link, o->link, fault) : BT_OK;
    return e < 0 ? e : bt_pace_parse(&pace, o->pace, fault);
}

bt_pace bt_node_device_pace(const bt_node_options *o)
{
    bt_pace pace = {0};
    (void)bt_pace_parse(&pace, o->pace, NULL); /* checked at start */
    return pace;
}

bool bt_node_device_link(bt_link *ret, const bt_node_options *o)
{
    return o->link && bt_link_parse(ret, o->link, NULL) == BT_OK;
}

static void set_errors(bt_msg_device *d, const bt_profile *p)
{
    _Static_assert((int)BT_FIGURES == (int)BT_MSG_MAX_DEVICE_FIGURES &&
                       (int)BT_AXES == (int)BT_MSG_MAX_DEVICE_AXES,
                   "a message has an error for each figure, and all axes");
    d->has_errors = true;
    for (uint32_t k = 0; k < BT_FIGURES; k++) {
        const bt_forecast_error e = bt_forecast_error_of(p, (bt_figure)k, &(bt_forecast_at){.rows = 0});
        d->error[k] = (bt_msg_device_error){
            .standing = (uint32_t)e.standing, .median_permille = e.median_permille,
            .worst_permille = e.worst_permille, .rows = e.rows, .bias_permille = e.bias_permille};
    }
    for (uint32_t k = 0; k < BT_AXES; k++) {
        d->region[k][0] = p->time.calibration.region[k].lo;
        d->region[k][1] = p->time.calibration.region[k].hi;
    }
    d->devices = (uint32_t)bt_profile_devices(&p->time);
}

bt_msg_device bt_node_device_about(const bt_profile *p, const char *link, bt_pace pace)
{
    bt_msg_device d = {.pace_milli = pace.milli};
    snprintf(d.profile, sizeof d.profile, "%s", p->name);
    snprintf(d.stack, sizeof d.stack, "%s", p->time.stack);
    snprintf(d.link, sizeof d.link, "%s", link ? link : "");
    set_errors(&d, p);
    return d;
}

bt_msg_device_work bt_node_device_work(const bt_work *w)
{
    return (bt_msg_device_work){.ns = w->ns, .ideal_ns = w->ideal_ns, .nj = w->nj,
                                .energy = (uint32_t)w->energy};
}
