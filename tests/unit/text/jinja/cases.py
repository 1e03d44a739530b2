"""Writes cases_table.h: sources of ours with the texts that jinja2 gives, in transformers' environment. Run by hand,
where a case was added, with a Python that has jinja2:  python3 tests/unit/text/jinja/cases.py"""
import copy
import datetime
import json
import os

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {
    "a": 3, "b": -7, "f": 2.5, "big": 1e22, "small": 1.5e-7, "t": True, "n": None, "s": "Hello World", "e": "",
    "u": "h\u00e9llo w\u00f6rld \u00df \u65e5\u672c", "w": "  padded\t\n", "q": "it's \"q\"\\ \n<b>&",
    "lines": "one\ntwo\r\n\nfour", "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "mixed": [1, "x", None, 2.0, True, [1]],
    "d": {"k": 1, "items": 2, "x y": "v", "nested": {"p": [1, {"r": "deep"}]}},
    "ms": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo", "n": 1}, {"role": "User", "content": ""}],
}

EXPRESSIONS = """
a + b|a - b * 2|a / 2|b // 2|b % 3|2 ** 10|2 ** -1|-a ** 2|0.1 + 0.2|1e16|123456789.125|big|small|1.0|1_000|0x1f|1 < 2 < 3
1 < 3 < 2|not a|a and e|e or s|a if e else b|a if e|s ~ a ~ n|'a' 'b'|'\\n\\t\\x41\\u00e9\\q'|s + '!'|s * 2|[1] + [2]|(1,) + (2,)
'lo' in s|'x' not in s|3 in l|'k' in d|a is divisibleby 3|a is odd|s is string|d is mapping|l is iterable|n is none
nothing is defined|nothing is undefined|a is not number|t is true|t is boolean|f is float|a is integer|s is sequence|a in [1, 3]
l[0]|l[-1]|l[9]|l[1:]|l[::-1]|l[:2]|s[1:4]|s[::-1]|s[-3:]|s[::2]|u[1:4]|s[5:1:-2]|d.k|d['x y']|d['items']|d.nested.p[1].r
d.get('k')|d.get('no')|d.get('no', 5)|d.keys()|d.values()|d.items()|d|ms|mixed|range(5)|range(1, 10, 3)|range(5)[1:]|{'a': 1, 'b': [1, (2,)]}
s.upper()|s.lower()|s.title()|s.swapcase()|u.upper()|u.title()|'it is'.capitalize()|w.strip()|w.lstrip()|w.rstrip()|s.strip('Hd')
s.split()|s.split('o')|s.split(' ', 1)|s.rsplit('o', 1)|w.split()|lines.splitlines()|lines.splitlines(true)|s.partition(' ')|s.rpartition('o')
s.startswith('He')|s.endswith(('x', 'ld'))|s.replace('l', 'L')|s.replace('l', 'L', 1)|s.replace('', '-')|s.find('o')|s.rfind('o')|s.find('z')
s.count('l')|s.index('W')|s.removeprefix('Hello')|s.removesuffix('World')|'42'.isdigit()|s.isalpha()|'7'.zfill(3)|'ab'.center(7, '*')
', '.join(ls)|'%s-%d-%5.2f/%-4s/%03d/%x' % ('a', 3, 2.345, 'b', 42, 255)|'%(k)s' % d|'{:>5}/{:.2f}/{!r}'.format('a', 2.5, 'x')
'{0}{1}{0}'.format(1, 2)|'{k}'.format(k=s)|'{:,}'.format(1234567)|'{:05d}'.format(-42)|'{{}}'.format()|ls.index('c')|ls.count('a')
s@length|l@length|u@length|s@upper|s@title|'foo-bar (baz)'@title|w@trim|s@trim('Hd')|s@replace('o', '0')|s@first|s@last|l@first|e@first|l@join|l@join('-')
ms@join(', ', attribute='role')|ls@sort|ls@sort(reverse=true)|ls@sort(case_sensitive=true)|ms@sort(attribute='content')@map(attribute='content')@list|l@max|l@min|l@sum
ls@unique@list|l@reverse@list|s@reverse|ls@map('upper')@list|ms@map(attribute='n', default=0)@list|[1, 2, 3]@select('odd')@list|mixed@select@list|mixed@reject('none')@list
ms@selectattr('role', 'equalto', 'user')@list@length|ms@selectattr('n', 'defined')@map(attribute='role')@list|ms@rejectattr('content')@list@length
ms@groupby('role')@map(attribute='grouper')@list|l@batch(2)@list|l@batch(2, 0)@list|range(7)@slice(3)@list|d@items@list|{'b': 1, 'a': 2}@dictsort|{'b': 1, 'a': 2}@dictsort(by='value')
'42'@int|'x'@int(7)|'0x1f'@int(0, 16)|'3.9'@int|'3.5'@float|2.5@round|42.55@round(1, 'floor')|7.125@round(2)|-3@abs|nothing@default('D')|e@default('D')|e@default('D', true)
q@tojson|d@tojson|ms@tojson(indent=2)|u@tojson(ensure_ascii=true)|d@tojson(separators=(',', ':'))|{'b': 1, 'a': [none, true, 1.5]}@tojson(sort_keys=true)|[]@tojson|mixed@tojson
lines@indent(2)|lines@indent(2, true, true)|lines@indent('> ')|s@truncate(5)|s@truncate(8, true)|s@truncate(9, false, '')|s@wordcount|'ab'@center(6)|q@e|'<p>a  b</p>'@striptags
'%s!'@format(s)|1500@filesizeformat|'a b/c'@urlencode|s@list@length|a@string@length|true@string|n@string|nothing@length|[1, [2, 3]] == [1, [2, 3]]|1 == true|'a' < 'b'
range(10)[::3]|range(3, 20, 4)[-1::-2]|range(5)[9:]|range(-9223372036854775807, 9223372036854775807, 4611686018427387904)@list
s@truncate(9223372036854775807)|s.center(-9223372036854775807 - 1)|s@center(-9223372036854775807 - 1)|s.rjust(-9223372036854775807 - 1)|-0.5@filesizeformat|'%*d/%-3d/' % (-4, 5, 6)
ls@map('map', 'upper')@map('list')@list|{(1, (2, 'x')): 3}.get((1, (2, 'x')))|s is sameas s|4503599627370497.0 // 1|-7.5 // 2|'{:5}/{}'.format(true, true)|'\\x7f\u00e9'@tojson(ensure_ascii=true)
'a<!-- <b> -->c<!<!-- x -->-- y -->d <!--> e <!---> f<!--'@striptags|'1 < 2 > 3 < 4 <b'@striptags|' &amp;lt; &lt;b&gt; <i>x</i>\\n\\u3000&copy 2 &notit; &notin; &nosuch; &fjlig; &ThickSpace; &'@striptags
'&#65;&#x42&#0;&#128;&#129;&#xD800;&#1114112;&#99999999999;&#1; &#; &#x; &#13; &#xFDD0;&#11;'@striptags|'&ngE;&AMP&ampx&lt&lt;&Lt;&gt&zwnj; &quot;'@striptags
'a b/c?d=e&f~\\u00e9%'@urlencode|{'a b': 'c/d', 'x': 1, 'y': none}@urlencode|[('a', 'b&c'), (1, true)]@urlencode|5@urlencode|none@urlencode|nothing@urlencode|[]@urlencode
'<b>'@safe + q|q + '&'@safe|q@e + q|q@e@e|q@e@forceescape|q@forceescape|'<b>'@safe ~ q|('<b>'@safe)@upper + '<'|('<b>'@safe).upper() + '<'
('<'@safe * 2) + '<'|('<ab>'@safe)[1:] + '<'|('<ab>'@safe)[0] + '<'|('<ab>'@safe)@first + '<'|('<b>'@safe)@reverse + '<'|('<a> <b>'@safe).split()[1] + '<'
('<a>'@safe).replace('a', '<') + '>'|('<a>'@safe)@replace('a', '<') + '>'|('&'@safe).join([q, '<'@safe, 5])|[q@safe, q]@join('&')|q@safe is escaped|q is escaped|q@e is escaped
('<'@safe)@string + '<'|5@safe + '<'|('<'@safe)@trim + '<'|('<'@safe)@center(3) + '<'|('<'@safe)@title + '<'|('<a\\nb'@safe)@indent(1) + '<'|('<a b c d e f g>'@safe)@truncate(6, true, '<')
('<p>'@safe)@striptags + '<'|('<'@safe)@tojson + '<'|q@safe == q|d@tojson@safe + '"'|[q@safe]@map('upper')@first + '<'|('<a'@safe).partition('a')[0] + '<'|{'k': q@safe}.k + '<'
strftime_now('%d %b %Y')|strftime_now('%Y-%m-%dT%H:%M:%S.%f%z')|dict(a=1, b='x')|namespace(a=1).a|ms[0].role ~ ms[-1]['content']|s.nothing|d.nothing is defined|'\\u65e5'@upper
""".strip().replace("\n", "|").split("|")
EXPRESSIONS = ["{{ " + e.replace("@", " | ") + " }}" for e in EXPRESSIONS]

TEMPLATES = [
    "{% for m in ms %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }} {% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.length }}:{{ x }},{% endfor %}",
    "{% for x in [] %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in l %}{% if loop.index == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for x in [[1, [2]], [3]] recursive %}{{ loop.depth }}[{{ loop(x) if x is iterable else x }}]{% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = i %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(go=true) %}{% for i in l if ns.go %}{{ i }}{% set ns.go = false %}{% endfor %}",
    "{% set a, b = l[:2] %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}",
    "{% if false %}{% set z = 1 %}{% endif %}{{ z is defined }}",
    "{% if n %}1{% elif e %}2{% elif a %}3{% else %}4{% endif %}",
    "{% set x %}  {{ s }}  {% endset %}[{{ x }}]{% set y | trim | upper %} {{ s }} {% endset %}[{{ y }}]",
    "{% macro m(p, o=5, r=p) %}{{ p }}{{ o }}{{ r }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}|{{ m(1, 2, 3, 4) }}|{{ m(p=1, z=2) }}",
    "{% macro w() %}<{{ caller('x') }}>{% endmacro %}{% call(v) w() %}{{ v }}{{ s }}{% endcall %}",
    "{% macro f(k) %}{{ k }}{% if k > 0 %}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro late() %}{{ later }}{% endmacro %}{% set later = 7 %}{{ late() }}",
    "{% filter upper %}abc {{ s }}{% endfilter %}",
    "{% with x = 1, y = s %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% print a, b %}{% generation %}{{ s }}{% endgeneration %}",
    "{% raw %}{{ x }} {% y %}{% endraw %}|{%- raw -%}  {{ y }}  {%- endraw -%}  |",
    "a {#- c -#} b {# c #}\n  {# d #}\nx",
    "a\n  {% if true %}\n  b\n  {%- endif %}\n  c\n",
    "a  {%- if true -%}  b  {%- endif -%}  c",
    "  {%+ if true %}\nb{% endif +%}\nc",
    "a  {{- s -}}  b\n{{ s }}\n\n",
    "{{ '}}' }}{{ {'a': {'b': 1}} }}{{ '%}' }}",
    "line\r\nline\rline\n",
    "{% set j = joiner('|') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}{% set c = cycler('x', 'y') %}{{ c.next() }}{{ c.next() }}{{ c.current }}",
    "{% for m in ms %}{{ '<|' + m.role + '|>\\n' + m['content'] | trim + '\\n' }}{% endfor %}{{ '<|assistant|>' if t }}",
]


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_take"), [], [], body).set_lineno(line)

    def _take(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def pieces(out):
    """Cut where no escape is cut."""
    part = ""
    i = 0
    while i < len(out):
        n = 1 if out[i] != "\\" else 4 if out[i + 1].isdigit() else 2
        part += out[i:i + n]
        i += n
        if len(part) >= 90:
            yield part
            part = ""
    if part or not out:
        yield part


def main():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    now = datetime.datetime(2025, 7, 30, 18, 26, 40)
    env.globals["strftime_now"] = now.strftime
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "cases_table.h"), "w") as f:
        f.write("/* Made by cases.py with jinja2 %s; not to be changed by hand. */\n// clang-format off\n" % jinja2.__version__)
        f.write("#define VARIABLES \\\n    %s\n" % " \\\n    ".join('"%s"' % p for p in pieces(
            json.dumps(VARIABLES).replace("\\", "\\\\").replace('"', '\\"'))))
        f.write("static const struct { const char *source, *text; } cases[] = {\n")
        for source in EXPRESSIONS + TEMPLATES:
            text = env.from_string(source).render(**copy.deepcopy(VARIABLES))
            f.write("    {%s,\n     %s},\n" % ("\n     ".join('"%s"' % p for p in pieces(escape(source))),
                                            "\n     ".join('"%s"' % p for p in pieces(escape(text)))))
        f.write("};\n// clang-format on\n")


def escape(text):
    out = ""
    for byte in text.encode():
        c = chr(byte)
        known = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}.get(c)
        out += known or (c if 32 <= byte < 127 else "\\%03o" % byte)
    return out


if __name__ == "__main__":
    main()
