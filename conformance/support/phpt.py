"""PHP's own format for tests (.phpt): sections between lines --NAME--; the output of FILE is compared with EXPECT, EXPECTF
or EXPECTREGEX. A small runner, since Debian has PHP's own in the packages for building extensions alone."""
import os
import re
import subprocess

PLACEHOLDERS = {"e": re.escape(os.sep), "s": r"[^\r\n]+", "S": r"[^\r\n]*", "a": ".+", "A": ".*", "w": r"\s*", "i": r"[+-]?\d+",
                "d": r"\d+", "x": "[0-9a-fA-F]+", "f": r"[+-]?\.?\d+\.?\d*(?:[Ee][+-]?\d+)?", "c": ".", "%": "%"}


def sections(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        parts = re.split(r"^--([A-Z_]+)--\r?\n", file.read(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def pattern_of(text):
    """EXPECTF as a regular expression: %s and so on, and %r...%r for one within."""
    out, at = "", 0
    for match in re.finditer(r"%r(.*?)%r|%([esSaAwidxfc%])", text, re.S):
        out += re.escape(text[at:match.start()])
        out += "(?:%s)" % match.group(1) if match.group(2) is None else PLACEHOLDERS[match.group(2)]
        at = match.end()
    return out + re.escape(text[at:])


def php(code, script, settings, seconds):
    """Standard output of `code`, run from the file `script` that is made for it; None: it came to no end."""
    with open(script, "w", encoding="utf-8") as file:
        file.write(code)
    command = ["php"]
    for setting in ["display_errors=1", "error_reporting=32767", "html_errors=0", "log_errors=0", *settings]:
        command += ["-d", setting]
    try:
        done = subprocess.run(command + [script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        os.unlink(script)
    return done.stdout.decode(errors="replace").replace("\r\n", "\n").strip()


def run(path, settings, seconds):
    """(PASS, FAIL or SKIP, why). `settings`: lines of php.ini."""
    parts, script = sections(path), path + ".php"
    if "SKIPIF" in parts:
        said = php(parts["SKIPIF"], script, settings, seconds) or ""
        if said.lower().startswith("skip"):
            return "SKIP", said
    own = [re.sub(r"\s*=\s*", "=", line.strip(), count=1) for line in parts.get("INI", "").splitlines() if line.strip()]
    said = php(parts["FILE"], script, settings + own, seconds)
    if said is None:
        return "FAIL", "it came to no end"
    if "EXPECT" in parts:
        good = said == parts["EXPECT"].replace("\r\n", "\n").strip()
    elif "EXPECTF" in parts:
        good = re.fullmatch(pattern_of(parts["EXPECTF"].replace("\r\n", "\n").strip()), said, re.S)
    else:
        good = re.fullmatch(parts["EXPECTREGEX"].strip(), said, re.S)
    return ("PASS", "") if good else ("FAIL", "it said: " + said)
