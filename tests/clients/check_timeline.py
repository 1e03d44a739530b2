"""The timelines that `baton timeline` writes, as Perfetto's own protobuf bindings (PyPI: perfetto) read them: the rules
of a trace with track events, and that the .pftrace and the .json tell the same spans.
  check_timeline.py FILE.pftrace FILE.json"""
import json
import sys
from collections import Counter

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb


def need(what, is_so):
    if not is_so:
        sys.exit(f"check_timeline: {what}")


def of_pftrace(path):
    trace, tracks, process, open_at, spans, last = pb.Trace(), {}, None, {}, Counter(), {}
    data = open(path, "rb").read()
    need("the file is one whole Trace", trace.ParseFromString(data) == len(data))
    need("no byte that the schema does not know", trace.SerializeToString() and trace.ByteSize() == len(data))
    for i, p in enumerate(trace.packet):
        need("every packet has the sequence's id", p.trusted_packet_sequence_id == 1)
        need("the first packet clears the state of its sequence",
             bool(p.sequence_flags & pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED) == (i == 0))
        if p.HasField("track_descriptor"):
            d = p.track_descriptor
            need("a track is described once", d.uuid and d.uuid not in tracks and d.uuid != process)
            if d.HasField("process"):
                need("one process, first", i == 0 and d.process.process_name)
                process = d.uuid
            else:
                need("a thread of the process", d.HasField("thread") and d.parent_uuid == process)
                tracks[d.uuid] = d.thread.thread_name
            continue
        need("a packet is a track or an event", p.HasField("track_event") and p.HasField("timestamp"))
        e = p.track_event
        need("an event is on a track described before", e.track_uuid in tracks)
        need("time does not go back on a track", p.timestamp >= last.get(e.track_uuid, 0))
        last[e.track_uuid] = p.timestamp
        if e.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
            need("an engine does one thing at a time", e.track_uuid not in open_at)
            notes = tuple(sorted((a.name, a.int_value) for a in e.debug_annotations))
            open_at[e.track_uuid] = (e.name, p.timestamp, notes)
        else:
            need("a slice ends that began", e.type == pb.TrackEvent.TYPE_SLICE_END and e.track_uuid in open_at)
            name, begin, notes = open_at.pop(e.track_uuid)
            spans[(tracks[e.track_uuid], name, begin, p.timestamp - begin, notes)] += 1
    need("every slice ends", not open_at)
    return spans


def of_json(path):
    names, spans = {}, Counter()
    ns = lambda us: round(us * 1000)
    for e in json.load(open(path))["traceEvents"]:
        if e["ph"] == "M":
            names[(e["name"], e["tid"])] = e["args"]["name"]
            continue
        need("complete events alone", e["ph"] == "X" and e["dur"] >= 0 and e["ts"] >= 0)
        spans[(names[("thread_name", e["tid"])], e["name"], ns(e["ts"]), ns(e["dur"]),
               tuple(sorted(e["args"].items())))] += 1
    return spans


a, b = of_pftrace(sys.argv[1]), of_json(sys.argv[2])
need(f"{sys.argv[1]} has spans", a)
need("both files tell the same spans", a == b)
print(f"{sum(a.values())} spans on {len({s[0] for s in a})} tracks: as the format asks, and the same in both files")
