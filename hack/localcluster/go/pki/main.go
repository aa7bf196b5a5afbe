// Program pki makes the keys and certificates of a local control plane.
//
// It exists because neither openssl nor a Python cryptography package is a given on the
// machines that the control plane runs on, while a Go toolchain is. Only the standard library
// is used.
//
//	pki init DIR                       a CA, the API server's certificate, the service-account keys
//	pki client DIR NAME USER [GROUP…]  a client certificate, DIR/NAME.crt and DIR/NAME.key
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const year = 365 * 24 * time.Hour

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "init":
		err = initialise(os.Args[2])
	case len(os.Args) >= 5 && os.Args[1] == "client":
		err = client(os.Args[2], os.Args[3], os.Args[4], os.Args[5:])
	default:
		err = fmt.Errorf("usage: pki init DIR | pki client DIR NAME USER [GROUP…]")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pki:", err)
		os.Exit(1)
	}
}

func initialise(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	authority := template("copyrator-local", nil)
	authority.IsCA = true
	authority.BasicConstraintsValid = true
	authority.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	authority.NotAfter = time.Now().Add(10 * year)
	caKey, err := newKey(dir, "ca")
	if err != nil {
		return err
	}
	ca, err := sign(dir, "ca", authority, authority, &caKey.PublicKey, caKey)
	if err != nil {
		return err
	}

	server := template("kube-apiserver", nil)
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 0, 0, 1)}
	server.DNSNames = []string{
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local",
	}
	serverKey, err := newKey(dir, "apiserver")
	if err != nil {
		return err
	}
	if _, err = sign(dir, "apiserver", server, ca, &serverKey.PublicKey, caKey); err != nil {
		return err
	}

	accounts, err := newKey(dir, "service-account")
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&accounts.PublicKey)
	if err != nil {
		return err
	}
	return write(dir, "service-account.pub", "PUBLIC KEY", public)
}

func client(dir, name, user string, groups []string) error {
	ca, caKey, err := loadAuthority(dir)
	if err != nil {
		return err
	}
	certificate := template(user, groups)
	certificate.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	key, err := newKey(dir, name)
	if err != nil {
		return err
	}
	_, err = sign(dir, name, certificate, ca, &key.PublicKey, caKey)
	return err
}

func template(commonName string, organisations []string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: commonName, Organization: organisations},
		NotBefore: now.Add(-time.Hour), // clocks of virtual machines jump
		NotAfter:  now.Add(year),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

func newKey(dir, name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, write(dir, name+".key", "EC PRIVATE KEY", der)
}

func sign(
	dir, name string, certificate, parent *x509.Certificate,
	public *ecdsa.PublicKey, signer *ecdsa.PrivateKey,
) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	certificate.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, certificate, parent, public, signer)
	if err != nil {
		return nil, err
	}
	if err = write(dir, name+".crt", "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func loadAuthority(dir string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certificate, err := readPEM(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, nil, err
	}
	der, err := readPEM(filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(der)
	return ca, key, err
}

func readPEM(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	return block.Bytes, nil
}

func write(dir, name, kind string, der []byte) error {
	content := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	return os.WriteFile(filepath.Join(dir, name), content, 0o600)
}
