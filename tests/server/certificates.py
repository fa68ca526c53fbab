"""Certificates of a test's own, and the configuration that names them."""
import ssl
import subprocess


class Authority:
    """A certificate authority in a folder, by the openssl command."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.file = folder / f"{name}.pem"
        self.openssl("req", "-x509", *self.new_key(name), "-out", self.file, "-days", "30", "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE")

    def openssl(self, *arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

    def new_key(self, name):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.folder / f"{name}.key"]

    def issue(self, name, subjects="DNS:localhost,IP:127.0.0.1"):
        """Certificate and key for these names, as the files of `server.tls`."""
        request, extensions, certificate = (self.folder / f"{name}.{ending}" for ending in ("csr", "ext", "pem"))
        extensions.write_text(f"subjectAltName={subjects}\n")
        self.openssl("req", *self.new_key(name), "-out", request, "-subj", f"/CN={name}")
        self.openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.folder / f"{self.name}.key", "-CAcreateserial",
                     "-days", "10", "-extfile", extensions, "-out", certificate)
        return certificate, self.folder / f"{name}.key"

    def trust(self, identity=None):
        """The context of a client that trusts this authority."""
        context = ssl.create_default_context(cafile=self.file)
        if identity:
            context.load_cert_chain(*identity)
        return context


class Files:
    def __init__(self, folder):
        self.ca = Authority(folder, "ca")
        self.other_ca = Authority(folder, "other-ca")
        self.server = self.ca.issue("server")
        self.second = self.ca.issue("second")
        self.client = self.ca.issue("client")
        self.stranger = self.other_ca.issue("stranger")


def section(certificate, key, more="", server=""):
    return f"server: {{tls: {{certificate: {certificate}, key: {key}{more}}}{server}}}\n"
