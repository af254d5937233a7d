"""Certificates for tests, made by openssl, and a TLS front for a plain port."""
import contextlib
import os
import select
import socket
import ssl
import subprocess
import threading

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


class Front:
    """TLS in front of a plain port, as stunnel is.  `wants` is the authority whose client certificates
    are required."""

    def __init__(self, to_port, certificate, wants=None, newest=None):
        self.to_port, self.names = to_port, []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*certificate)
        self.context.sni_callback = lambda _, name, __: self.names.append(name)
        if newest:
            self.context.maximum_version = newest
        if wants:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(wants)
        self.lock, self.ends = threading.Lock(), set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        far = socket.create_connection(("127.0.0.1", self.to_port))
        with self.lock:
            self.ends.update((near, far))
        try:
            near = self.context.wrap_socket(near, server_side=True)
            with self.lock:
                self.ends.add(near)
            self._relay(near, far)
        except OSError:
            pass    # a client that does not like the certificate, or one that was cut
        finally:
            for end in (near, far):
                end.close()

    @staticmethod
    def _relay(near, far):
        """One thread for both ways: an SSL connection is not for two at once."""
        near.setblocking(False)
        readers = [near, far]
        while far in readers:
            for end in select.select(readers, [], [])[0]:
                try:
                    data = end.recv(65536)
                    while end is near and near.pending():
                        data += end.recv(65536)
                except ssl.SSLWantReadError:
                    continue
                if end is near and data:
                    far.sendall(data)
                elif end is near:
                    readers.remove(near)
                    far.shutdown(socket.SHUT_WR)
                elif data:
                    near.settimeout(60)
                    near.sendall(data)
                    near.setblocking(False)
                else:
                    readers.remove(far)

    def cut(self):
        """Ends every connection, and begins anew with the next."""
        with self.lock:
            ends, self.ends = self.ends, set()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()
        self.cut()
