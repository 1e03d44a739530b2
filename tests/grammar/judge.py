"""Answers drawn by masks at random, judged by PyPI's jsonschema: 500 schemas of a generator of its own, or the cases of
the JSON Schema Test Suite. Needs `pip install jsonschema rfc3339-validator fqdn isodate`; no part of `make test`.

  judge.py BENCH_GRAMMAR GGUF [SEED]             500 schemas, three answers each
  judge.py BENCH_GRAMMAR GGUF --suite FOLDER     the suite's tests/draft2020-12: answers, and what is refused by name

Exit code 1: an answer that its schema does not allow, or one without an end.
"""
import collections
import json
import pathlib
import random
import re
import subprocess
import sys

import jsonschema

TIMES = 3
FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "uri"]
PATTERNS = ["^[a-z]{2,8}$", "^[A-Z][a-z]*( [A-Z][a-z]*)*$", "^\\d{3}-\\d{4}$", "^(foo|bar)+$", "0|-", "^(a|b)*c$", "^[^\\s\"]+$",
            "^\\w{1,4}@\\w{1,4}$", "^[\\u00e0-\\u00ff]{1,3}$", "^x?y+z{0,3}$", "^$|^[01]{4,8}$"]
WORDS = ["name", "age", "tags", "id", "kind", "value", "items", "next", "a", "ab", "abc", "b", "größe", "a b", "x\"y", "z\\"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def schema(self):
        self.names = [f"d{i}" for i in range(self.r.randint(0, 2))]
        root = self.value(0)
        if isinstance(root, dict) and self.names:
            # What is named is finite by itself: recursion goes through members that may be left out, or lists.
            root["$defs"] = {name: self.object(2) for name in self.names}
        return root

    def value(self, depth):
        r = self.r
        kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "string"]
        if depth < 3:
            kinds += ["object"] * 4 + ["array"] * 3 + ["anyOf", "oneOf", "allOf", "types"]
        if self.names and depth > 0:
            kinds.append("ref")
        return getattr(self, "make_" + r.choice(kinds))(depth)

    def make_string(self, _):
        r, s = self.r, {"type": "string"}
        what = r.randint(0, 5)
        if what == 0:
            s["pattern"] = r.choice(PATTERNS)
        elif what == 1:
            s["format"] = r.choice(FORMATS)
        elif what == 2:
            s["minLength"] = r.randint(0, 5)
            s["maxLength"] = s["minLength"] + r.randint(0, 30)
        elif what == 3:
            s["pattern"] = "^[a-zé]*$"
            s["maxLength"] = r.randint(1, 9)
        return s

    def bounds(self, numbers):
        r, s = self.r, {}
        low = numbers()
        if r.random() < 0.5:
            s[r.choice(["minimum", "exclusiveMinimum"])] = low
        if r.random() < 0.5:
            s[r.choice(["maximum", "exclusiveMaximum"])] = low + abs(numbers()) + 2
        return s

    def make_integer(self, _):
        return {"type": "integer", **self.bounds(lambda: self.r.choice([0, 7, -12, 99, 1000, -54321, 123456789]))}

    def make_number(self, _):
        return {"type": "number", **self.bounds(lambda: self.r.choice([0, 0.5, -1.25, 3.14159, 100, -0.001, 2.5e4]))}

    def make_boolean(self, _):
        return {"type": "boolean"}

    def make_null(self, _):
        return {"type": "null"}

    def constant(self):
        return self.r.choice([1, -3, 2.5, "a", "b\n", "ü", True, None, [1, "x"], {"k": [None]}, "", 0])

    def make_enum(self, _):
        return {"enum": [self.constant() for _ in range(self.r.randint(1, 4))]}

    def make_const(self, _):
        return {"const": self.constant()}

    def make_types(self, _):
        return {"type": self.r.sample(["string", "integer", "boolean", "null"], 2)}

    def make_ref(self, _):
        # Behind a list that may be empty, so that every schema has an end.
        return {"type": "array", "items": {"$ref": "#/$defs/" + self.r.choice(self.names)}, "maxItems": 1}

    def object(self, depth):
        r = self.r
        names = r.sample(WORDS, r.randint(0, 5))
        s = {"type": "object", "properties": {name: self.value(depth + 1) for name in names}}
        s["required"] = [name for name in names if r.random() < 0.6]
        more = r.randint(0, 3)
        if more == 0:
            s["additionalProperties"] = False
        elif more == 1:
            s["additionalProperties"] = self.value(depth + 1)
        return s

    def make_object(self, depth):
        return self.object(depth)

    def make_array(self, depth):
        r, s = self.r, {"type": "array"}
        if r.random() < 0.9:
            s["items"] = self.value(depth + 1)
        if r.random() < 0.3:
            s["prefixItems"] = [self.value(depth + 1) for _ in range(r.randint(1, 2))]
        if r.random() < 0.5:
            s["minItems"] = r.randint(0, 2)
        if r.random() < 0.5:
            s["maxItems"] = s.get("minItems", 0) + r.randint(0, 3)
        return s

    def make_anyOf(self, depth):
        return {"anyOf": [self.value(depth + 1) for _ in range(self.r.randint(1, 3))]}

    def make_oneOf(self, depth):
        kinds = ["move", "say", "stop"]
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": kind}, "of": self.value(depth + 1)},
                           "required": ["kind"], "additionalProperties": False} for kind in kinds[:self.r.randint(2, 3)]]}

    def make_allOf(self, depth):
        one = {"type": "object", "properties": {"p": self.value(depth + 1)}, "required": ["p"]}
        two = {"type": "object", "properties": {"q": self.value(depth + 1)}, "minimum": 3}
        return {"allOf": [one, two]}


def draw(bench, model, schemas, seed):
    """Yields (schema, lines of its answer)."""
    text = "".join(json.dumps(s) + "\n" for s in schemas)
    out = subprocess.run([bench, "draw", model, str(TIMES), str(seed)], input=text, text=True, capture_output=True,
                         check=True).stdout
    blocks = out.split("\n.\n") if not out.startswith(".\n") else [""] + out[2:].split("\n.\n")
    blocks = [[line for line in block.split("\n") if line and line != "."] for block in blocks]
    assert len(blocks) >= len(schemas), (len(blocks), len(schemas))
    return zip(schemas, blocks)


def judge(pairs):
    counts, refused, wrong = collections.Counter(), collections.Counter(), []
    for schema, lines in pairs:
        for line in lines:
            counts[line[0]] += 1
            if line[0] == "!":
                refused[re.sub(r"\d+", "N", line[2:])] += 1
                continue
            if line[0] == "?":
                wrong.append((schema, line))
                continue
            text = json.loads(line[2:])
            try:
                validator = jsonschema.Draft202012Validator(
                    schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
                validator.validate(json.loads(text))
            except (ValueError, jsonschema.ValidationError) as e:
                wrong.append((schema, text, str(e).split("\n")[0]))
    return counts, refused, wrong


def suite(folder):
    for path in sorted(pathlib.Path(folder, "tests/draft2020-12").glob("*.json")):
        for case in json.loads(path.read_text()):
            yield case["schema"], case["tests"]


def main():
    bench, model = sys.argv[1:3]
    if len(sys.argv) > 4 and sys.argv[3] == "--suite":
        schemas = [s for s, _ in suite(sys.argv[4])]
        seed = 1
    else:
        seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
        maker = Maker(seed)
        schemas = [maker.schema() for _ in range(500)]
    counts, refused, wrong = judge(draw(bench, model, schemas, seed))
    print(f"seed {seed}: {len(schemas)} schemas, {counts['=']} answers, {counts['!']} schemas refused, "
          f"{counts['?']} answers without an end, {len(wrong)} wrong")
    for words, n in refused.most_common():
        print(f"  refused {n:4d}: {words}")
    for one in wrong[:20]:
        print("  WRONG", *(json.dumps(part, ensure_ascii=False) for part in one))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
