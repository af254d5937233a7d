"""Certificates for tests, made by openssl."""
import os
import subprocess

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Authority:
    """An authority and what it signs, as files of a folder."""

    def __init__(self, folder, name):
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.cert, self.key = self._path(name + ".pem"), self._path(name + ".key")
        self._openssl("req", "-x509", *KEY, "-subj", "/CN=authority " + name, "-days", "2",
                      "-keyout", self.key, "-out", self.cert)

    def _path(self, file):
        return os.path.join(self.folder, file)

    def _openssl(self, *args):
        done = subprocess.run(["openssl"] + list(args), stdin=subprocess.DEVNULL, cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise AssertionError("openssl %s: %s" % (" ".join(args), done.stdout.decode()))

    def sign(self, name, names="", days=2):
        """(certificate, key) for a common name and further ones such as "DNS:db,IP:127.0.0.1".
        With days below 0 the certificate has expired."""
        base = self._path(name)
        self._openssl("req", *KEY, "-subj", "/CN=" + name, "-keyout", base + ".key",
                      "-out", base + ".csr")
        with open(base + ".ext", "w") as f:
            f.write("basicConstraints=CA:FALSE\n" + (names and "subjectAltName=%s\n" % names))
        self._openssl("x509", "-req", "-in", base + ".csr", "-CA", self.cert, "-CAkey", self.key,
                      "-CAcreateserial", "-days", str(days), "-extfile", base + ".ext",
                      "-out", base + ".pem")
        return base + ".pem", base + ".key"

    def lock(self, key, passphrase):
        """A copy of the key that wants a passphrase."""
        self._openssl("pkey", "-in", key, "-aes256", "-passout", "pass:" + passphrase,
                      "-out", key + ".locked")
        return key + ".locked"
