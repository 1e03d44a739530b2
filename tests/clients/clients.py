"""Clients of the gateway's dialects as they are, against a running gateway. For each, streaming and not, the same greedy answer
is asked for; both must come, say the same, and end as they should.

  clients.py URL CLIENT...     prints a line "client TAB call TAB not streamed TAB streamed" for each; exit 1: one failed
"""
import asyncio
import os
import subprocess
import sys
import tempfile

URL = sys.argv[1]
ASK = "What is the capital of France? Answer in one sentence."
WANT = "Paris"
MESSAGES = [{"role": "user", "content": ASK}]
GREEDY = {"temperature": 0, "max_tokens": 32}
failed = False


def tried(call):
    """Text of the answer, or why there is none."""
    try:
        text = call()
    except Exception as e:
        return None, f"{type(e).__name__}: {e}".splitlines()[0][:160]
    return text, None if WANT in text else f"says {text!r}"


def report(client, what, whole, stream):
    global failed
    a, a_error = tried(whole)
    b, b_error = tried(stream) if stream else (a, None)
    if not (a_error or b_error) and a.strip() != b.strip():
        b_error = f"streamed {b!r}, not streamed {a!r}"
    failed |= bool(a_error or b_error)
    print(client, what, a_error or "yes", b_error or "yes" if stream else "", sep="\t", flush=True)


def check(wanted):
    assert wanted
    return WANT


def openai_sync():
    import openai

    c = openai.OpenAI(base_url=URL + "/v1", api_key="none")
    name = c.models.list().data[0].id
    version = "openai " + openai.__version__
    report(version, "chat.completions.create",
           lambda: c.chat.completions.create(model=name, messages=MESSAGES, **GREEDY).choices[0].message.content,
           lambda: "".join(p.choices[0].delta.content or "" for p in c.chat.completions.create(
               model=name, messages=MESSAGES, stream=True, stream_options={"include_usage": True}, **GREEDY)
               if p.choices))
    prompt = "The capital of France is"
    report(version, "completions.create",
           lambda: c.completions.create(model=name, prompt=prompt, **GREEDY).choices[0].text,
           lambda: "".join(p.choices[0].text for p in c.completions.create(
               model=name, prompt=prompt, stream=True, **GREEDY)))


    def likeliest():
        for top in 2, 0:
            p = c.completions.create(model=name, prompt=prompt, logprobs=top, seed=2**63, **GREEDY).choices[0].logprobs
            assert p.text_offset[0] == len(prompt) and len(p.tokens) == len(p.token_logprobs)
            assert top == 0 and p.top_logprobs is None or \
                all(l[t] == x for l, t, x in zip(p.top_logprobs, p.tokens, p.token_logprobs))
        return WANT

    report(version, "completions.create, logprobs", likeliest, None)
    by_hand = f"<|im_start|>user\n{ASK}<|im_end|>\n<|im_start|>assistant\n"
    report(version, "a chat rendered by hand",
           lambda: c.completions.create(model=name, prompt=by_hand, stop="<|im_end|>", **GREEDY).choices[0].text, None)
    report(version, "with everything harmless",
           lambda: c.chat.completions.create(
               model=name, messages=MESSAGES, n=1, user="u", store=False, metadata={"a": "b"}, service_tier="auto",
               reasoning_effort="low", parallel_tool_calls=False, seed=1, logprobs=True, top_logprobs=2,
               **GREEDY).choices[0].message.content, None)
    report(version, "models.retrieve", lambda: check(c.models.retrieve(name).id == name), None)

    def refused(call, kind):
        try:
            call()
        except kind:
            return WANT
        raise AssertionError("not refused")

    report(version, "errors as exceptions", lambda: refused(lambda: c.models.retrieve("none/such"), openai.NotFoundError)
           and refused(lambda: c.chat.completions.create(model=name, messages=MESSAGES, extra_body={"max_token": 1}),
                       openai.BadRequestError), None)


def openai_async():
    import openai

    async def whole():
        async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key="none") as c:
            answers = await asyncio.gather(*[c.chat.completions.create(model="smollm2", messages=MESSAGES, **GREEDY)
                                             for _ in range(4)])
            assert len({a.choices[0].message.content for a in answers}) == 1
            return answers[0].choices[0].message.content

    async def stream():
        async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key="none") as c:
            parts = await c.chat.completions.create(model="smollm2", messages=MESSAGES, stream=True, **GREEDY)
            return "".join([p.choices[0].delta.content or "" async for p in parts])

    report("openai " + openai.__version__ + ", async", "chat.completions.create, four at once",
           lambda: asyncio.run(whole()), lambda: asyncio.run(stream()))


def openai_responses():
    import openai
    from pydantic import BaseModel

    class City(BaseModel):
        city: str

    c = openai.OpenAI(base_url=URL + "/v1", api_key="none")
    how = {"model": "smollm2", "input": ASK, "temperature": 0, "max_output_tokens": 32}
    version = "openai " + openai.__version__

    def streamed():
        kinds = []
        with c.responses.stream(**how) as s:
            for n, event in enumerate(s):
                kinds.append(event.type)
            last = s.get_final_response()
        assert kinds[0] == "response.created" and kinds[-1] == "response.completed" and last.usage.output_tokens > 0
        return last.output_text

    report(version, "responses.create, stream", lambda: c.responses.create(**how).output_text, streamed)
    report(version, "responses.parse", lambda: c.responses.parse(text_format=City, **how).output_parsed.city, None)

    def refused():
        try:
            c.responses.create(previous_response_id="resp_1", **how)
        except openai.BadRequestError as e:
            return check("previous_response_id" in str(e))

    report(version, "responses.create, previous_response_id refused", refused, None)


def anthropic_messages():
    import anthropic

    c = anthropic.Anthropic(base_url=URL, api_key="none")
    how = {"model": "smollm2", "messages": MESSAGES, "max_tokens": 32, "extra_body": {"temperature": 0}}
    version = "anthropic " + anthropic.__version__

    def streamed():
        with c.messages.stream(**how) as s:
            text = "".join(s.text_stream)
            last = s.get_final_message()
        assert last.content[0].text == text and last.stop_reason == "end_turn" and last.usage.output_tokens > 0
        return text

    def whole():
        m = c.messages.create(**how)
        assert c.messages.count_tokens(model="smollm2", messages=MESSAGES).input_tokens == \
            m.usage.input_tokens + m.usage.cache_read_input_tokens
        return m.content[0].text

    report(version, "messages.create, stream, count_tokens", whole, streamed)
    blocks = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    report(version, "system blocks", lambda: c.messages.create(system=blocks, **how).content[0].text, None)

    def stopped():
        m = c.messages.create(stop_sequences=[" Paris"], **how)
        return check(m.stop_reason == "stop_sequence" and m.stop_sequence == " Paris")

    report(version, "stop_sequences", stopped, None)

    def refused():
        try:
            c.messages.create(**{**how, "model": "none/such"})
        except anthropic.NotFoundError as e:
            return check(e.body["error"]["type"] == "not_found_error")

    report(version, "errors as exceptions", refused, None)


def ollama_api():
    import ollama
    from importlib.metadata import version

    c = ollama.Client(host=URL)
    greedy = {"temperature": 0, "num_predict": 32}
    name = "ollama " + version("ollama")
    report(name, "chat", lambda: c.chat("smollm2", MESSAGES, options=greedy).message.content,
           lambda: "".join(p.message.content for p in c.chat("smollm2", MESSAGES, options=greedy, stream=True)))
    report(name, "generate", lambda: c.generate("smollm2", ASK, options=greedy).response,
           lambda: "".join(p.response for p in c.generate("smollm2", ASK, options=greedy, stream=True)))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    report(name, "chat, format", lambda: c.chat("smollm2", MESSAGES, options=greedy, format=schema).message.content, None)
    report(name, "list, ps, show",
           lambda: check(c.list().models[0].model == "smollm2" and c.ps().models[0].context_length > 0 and
                         c.show("smollm2").modelinfo["general.architecture"] == "llama"), None)

    def refused():
        try:
            c.chat("none/such", MESSAGES)
        except ollama.ResponseError as e:
            return check(e.status_code == 404 and "does not exist" in e.error)

    report(name, "errors as exceptions", refused, None)


def langchain():
    from importlib.metadata import version
    from langchain_openai import ChatOpenAI, OpenAI

    c = ChatOpenAI(base_url=URL + "/v1", api_key="none", model="smollm2", temperature=0, max_tokens=32)
    t = OpenAI(base_url=URL + "/v1", api_key="none", model="smollm2", temperature=0, max_tokens=32)
    name = "langchain-openai " + version("langchain-openai")
    report(name, "ChatOpenAI.invoke, stream", lambda: c.invoke(ASK).content,
           lambda: "".join(p.content for p in c.stream(ASK)))
    report(name, "OpenAI.invoke, stream", lambda: t.invoke("The capital of France is"),
           lambda: "".join(t.stream("The capital of France is")))


def litellm():
    from importlib.metadata import version
    import litellm as l

    how = {"model": "openai/smollm2", "api_base": URL + "/v1", "api_key": "none", "messages": MESSAGES, **GREEDY}
    report("litellm " + version("litellm"), "completion", lambda: l.completion(**how).choices[0].message.content,
           lambda: "".join(p.choices[0].delta.content or "" for p in l.completion(stream=True, **how)))


def llm():
    from importlib.metadata import version

    with tempfile.TemporaryDirectory() as home:
        with open(home + "/extra-openai-models.yaml", "w") as f:
            f.write(f"- model_id: baton\n  model_name: smollm2\n  api_base: {URL}/v1\n")
        command = [os.path.dirname(sys.executable) + "/llm", "-m", "baton", "--key", "none", "-o", "temperature", "0",
                   "-o", "max_tokens", "32", ASK]
        env = dict(os.environ, LLM_USER_PATH=home)

        def run(more):
            done = subprocess.run(command + more, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=120)
            if done.returncode:
                raise RuntimeError(done.stderr.strip())
            return done.stdout

        report("llm " + version("llm"), "llm -m baton", lambda: run(["--no-stream"]), lambda: run([]))


def curl():
    import json

    def run(stream):
        body = json.dumps({"messages": MESSAGES, "stream": stream, **GREEDY})
        done = subprocess.run(["curl", "-sS", "-N", "--max-time", "120", URL + "/v1/chat/completions", "-d", body],
                              capture_output=True, text=True, check=True)
        if not stream:
            return json.loads(done.stdout)["choices"][0]["message"]["content"]
        parts = [x[6:] for x in done.stdout.splitlines() if x.startswith("data: ")]
        assert parts.pop() == "[DONE]"
        return "".join(json.loads(p)["choices"][0]["delta"].get("content", "") for p in parts)

    version = subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout.split()[1]
    report("curl " + version, "-d '{...}'", lambda: run(False), lambda: run(True))


for client in sys.argv[2:]:
    globals()[client]()
sys.exit(failed)
