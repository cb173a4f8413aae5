"""Certificates for tests, made by the openssl command in a directory of the test's own."""
import os
import subprocess


class Authority:
    """A certificate authority with everything it signed, as PEM files in `directory`."""

    def __init__(self, directory, name="ca", end=".crt"):
        self.directory, self.name = directory, name
        self.cert, self._key = self.path(name + end), self.path(name + ".key")
        self._openssl("req", "-x509", *NEW_KEY, "-keyout", self._key, "-out", self.cert, "-days", "30",
                      "-subj", "/O=TarryMQ test/CN=" + name, "-addext", "basicConstraints=critical,CA:TRUE")

    def path(self, name):
        return os.path.join(self.directory, name)

    def sign(self, file, common_name, names="", days=30):
        """(certificate, key): files FILE.crt and FILE.key. `names`: "DNS:a,URI:b". Days below 0: it has expired."""
        cert, key, request = (self.path(file + end) for end in (".crt", ".key", ".csr"))
        extensions = self.path(file + ".ext")
        with open(extensions, "w") as out:
            out.write("basicConstraints=CA:FALSE\n" + ("subjectAltName=%s\n" % names if names else ""))
        self._openssl("req", *NEW_KEY, "-keyout", key, "-out", request, "-subj", "/CN=" + common_name)
        self._openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self._key, "-CAcreateserial",
                      "-days", str(days), "-extfile", extensions, "-out", cert)
        return cert, key

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, timeout=60)


NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
