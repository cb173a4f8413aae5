"""Other people's test suites: the upstream part of Debian's source packages, fetched when they are wanted and kept in
build/conformance. apt is asked with a configuration of our own, so that the machine's own list of sources stays as it is;
it checks the signatures."""
import fcntl
import glob
import os
import re
import shutil
import subprocess
import tarfile

from broker import ROOT
from report import Skip, one_line

KEPT = os.path.join(ROOT, "build", "conformance")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What: (source package, version, release of Debian that has it, folder in the archive). The versions are pinned here.
SOURCES = {
    "pika": ("python-pika", "1.3.2-1", "trixie", "pika-1.3.2"),
    "py-amqp": ("python-amqp", "5.3.1-2", "trixie", "amqp-5.3.1"),
    "kombu": ("kombu", "5.2.4-1", "bookworm", "kombu-5.2.4"),
    "java-client": ("rabbitmq-java-client", "5.0.0-1.1", "bookworm", "rabbitmq-java-client-5.0.0"),
    "bunny": ("ruby-bunny", "2.23.0-1", "trixie", "ruby-amqp-bunny-*"),
    "anyevent-rabbitmq": ("libanyevent-rabbitmq-perl", "1.22~dfsg-1", "bookworm", "AnyEvent-RabbitMQ-1.22"),
    "aiormq": ("python-aiormq", "6.8.1-1", "trixie", "python-aiormq-6.8.1"),
    "php-amqp": ("php-amqp", "1.11.0-5", "bookworm", "amqp-1.11.0"),
    "librabbitmq": ("librabbitmq", "0.11.0-1+deb12u2", "bookworm", "rabbitmq-c-0.11.0"),
}


def run(arguments, seconds, **more):
    """Its output; Skip if it does not come to a good end."""
    try:
        done = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=seconds, **more)
    except FileNotFoundError:
        raise Skip("%s is not there" % arguments[0])
    except subprocess.TimeoutExpired:
        raise Skip("%s: nothing within %d s" % (" ".join(arguments[:2]), seconds))
    text = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        errors = [line for line in text.splitlines() if line.startswith("E:")] or text.splitlines()[-3:]
        errors = re.sub(r"\[IP[^]]*\]", "", " ".join(errors))
        raise Skip("%s failed: %s" % (" ".join(arguments[:2]), one_line(errors)))
    return text


def mirror():
    """Where this machine takes Debian from."""
    text = run(["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"], 30)
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["bookworm", "main"] and len(words) == 3:
            return words[2]
    raise Skip("apt has no Debian 12 to take source packages from")


def apt_environment():
    """A configuration with nothing but the source packages of the releases above; its lists are fetched once."""
    folder = os.path.join(KEPT, "apt")
    config = os.path.join(folder, "apt.conf")
    uri = mirror()
    wanted = "".join("Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n\n" % (uri, release, KEYRING)
                     for release in sorted({s[2] for s in SOURCES.values()}))
    sources = os.path.join(folder, "sources", "debian.sources")
    environment = dict(os.environ, APT_CONFIG=config)
    fetched = os.path.join(folder, "fetched")
    if os.path.exists(fetched) and open(sources).read() == wanted:
        return environment
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("sources", "lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(folder, name))
    with open(config, "w") as file:
        file.write('Dir::Etc::sourcelist "%s/none";\nDir::Etc::sourceparts "%s/sources";\n'
                   'Dir::State::lists "%s/lists";\nDir::Cache "%s/cache";\n' % ((folder,) * 4))
        # The archive is ours to read, not another user's.
        file.write('APT::Sandbox::User "root";\n')
    with open(sources, "w") as file:
        file.write(wanted)
    run(["apt-get", "update"], 120, env=environment)
    open(fetched, "w").close()
    return environment


def unpack(what, into):
    """Puts the tree of SOURCES[what] below the folder `into`; its path. Skip if it can't be had."""
    package, version, release, folder = SOURCES[what]
    archive = os.path.join(KEPT, "sources", "%s-%s.tar.gz" % (package, version))
    os.makedirs(os.path.dirname(archive), exist_ok=True)
    with open(os.path.join(KEPT, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)   # suites run side by side, apt's folder is one
        if not os.path.exists(archive):
            environment = apt_environment()
            box = os.path.join(KEPT, "sources", "in")
            shutil.rmtree(box, ignore_errors=True)
            os.makedirs(box)
            said = ""
            try:
                run(["apt-get", "-q", "source", "--download-only", "--tar-only", "%s=%s" % (package, version)], 120,
                    env=environment, cwd=box)
            except Skip as reason:   # of several archives the one that is wanted may have come all the same
                said = str(reason)
            tars = [name for name in os.listdir(box) if ".orig.tar." in name]
            if len(tars) != 1:
                raise Skip("%s %s: no archive: %s" % (package, version, said))
            os.replace(os.path.join(box, tars[0]), archive)
    with tarfile.open(archive) as tar:
        tar.extractall(into)
    trees = glob.glob(os.path.join(into, folder))
    if len(trees) != 1:
        raise Skip("the source package %s %s has no folder %s" % (package, version, folder))
    return trees[0]


def edit(tree, pairs, *paths):
    """Replaces texts in files below `tree`, and says so if one is not found."""
    for path in paths:
        full = os.path.join(tree, path)
        with open(full) as file:
            text = file.read()
        for old, new in pairs:
            if old not in text:
                raise ValueError("%s has no %r" % (path, old))
            text = text.replace(old, new)
        with open(full, "w") as file:
            file.write(text)
