// Command keyless makes keyless signatures: certificates with an embedded SCT by Fulcio's own CA,
// log entries with inclusion proof and checkpoint by Rekor's own modules, and the trusted root.
//
// It reads a JSON list of requests and writes {"trustedRoot", "otherRoot", "bundles"}.
package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"net/url"
	"os"
	"strings"
	"time"

	ct "github.com/google/certificate-transparency-go"
	cttls "github.com/google/certificate-transparency-go/tls"
	ctx509 "github.com/google/certificate-transparency-go/x509"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	fulcio "github.com/sigstore/fulcio/pkg/ca"
	"github.com/sigstore/fulcio/pkg/ca/baseca"
	"github.com/sigstore/fulcio/pkg/certificate"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	bundleType    = "application/vnd.dev.sigstore.bundle.v0.3+json"
	statementType = "application/vnd.in-toto+json"
)

type request struct {
	Name, Statement, Subject, Issuer string
	// Variant: no-sct, foreign-sct, no-proof, late, other-root, or nothing.
	Variant string
}

// services are one sigstore: Fulcio's CA, a certificate log's key, and Rekor's log.
type services struct {
	authority *baseca.BaseCA
	ctKey     *ecdsa.PrivateKey
	rekor     *rekor
	begin     time.Time
}

// principal is who signs, as Fulcio learns it from an OIDC token.
type principal struct{ subject, issuer string }

func (who principal) Name(context.Context) string { return who.subject }

func (who principal) Embed(_ context.Context, cert *x509.Certificate) error {
	if strings.Contains(who.subject, "://") {
		address, err := url.Parse(who.subject)
		if err != nil {
			return err
		}
		cert.URIs = []*url.URL{address}
	} else {
		cert.EmailAddresses = []string{who.subject}
	}
	var err error
	cert.ExtraExtensions, err = certificate.Extensions{Issuer: who.issuer}.Render()
	return err
}

func main() {
	var requests []request
	must(json.NewDecoder(os.Stdin).Decode(&requests))
	own, other := newServices(), newServices()
	bundles := map[string]json.RawMessage{}
	for _, wanted := range requests {
		by := own
		if wanted.Variant == "other-root" {
			by = other
		}
		bundles[wanted.Name] = by.sign(wanted, other.ctKey)
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"trustedRoot": own.trustedRoot(),
		"otherRoot":   other.trustedRoot(),
		"bundles":     bundles,
	}))
}

func newServices() *services {
	rootCertificate, rootKey, err := ca.GenerateRootCa()
	must(err)
	between, key, err := ca.GenerateFulcioIntermediate(rootCertificate, rootKey)
	must(err)
	chain := []*x509.Certificate{between, rootCertificate}
	authority := &baseca.BaseCA{
		SignerWithChain: &fulcio.SignerCerts{Signer: key, Certs: chain},
	}
	return &services{authority, newKey(), newRekor(), time.Now().Add(-time.Minute)}
}

func (all *services) sign(wanted request, foreign *ecdsa.PrivateKey) json.RawMessage {
	key := newKey()
	leaf := all.certificate(wanted, key, foreign)
	payload := []byte(wanted.Statement)
	digest := sha256.Sum256(dsse.PAE(statementType, payload))
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	must(err)
	bundle := &protobundle.Bundle{
		MediaType: bundleType,
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content: &protobundle.VerificationMaterial_Certificate{
				Certificate: &protocommon.X509Certificate{RawBytes: leaf.Raw},
			},
			TlogEntries: []*protorekor.TransparencyLogEntry{
				all.entry(wanted, leaf, payload, signature),
			},
		},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload:     payload,
			PayloadType: statementType,
			Signatures:  []*protodsse.Signature{{Sig: signature}},
		}},
	}
	text, err := protojson.Marshal(bundle)
	must(err)
	return text
}

func (all *services) certificate(
	wanted request, key, foreign *ecdsa.PrivateKey,
) *x509.Certificate {
	ctx, who := context.Background(), principal{wanted.Subject, wanted.Issuer}
	if wanted.Variant == "no-sct" {
		made, err := all.authority.CreateCertificate(ctx, who, key.Public())
		must(err)
		return made.FinalCertificate
	}
	before, err := all.authority.CreatePrecertificate(ctx, who, key.Public())
	must(err)
	ctKey := all.ctKey
	if wanted.Variant == "foreign-sct" {
		ctKey = foreign
	}
	sct := promise(before.PreCert, before.CertChain[0], ctKey)
	made, err := all.authority.IssueFinalCertificate(ctx, before, sct)
	must(err)
	return made.FinalCertificate
}

// promise is a certificate log's answer to add-pre-chain.
func promise(leaf, issuer *x509.Certificate, key *ecdsa.PrivateKey) *ct.SignedCertificateTimestamp {
	var chain []*ctx509.Certificate
	for _, one := range []*x509.Certificate{leaf, issuer} {
		parsed, err := ctx509.ParseCertificate(one.Raw)
		if ctx509.IsFatal(err) {
			must(err)
		}
		chain = append(chain, parsed)
	}
	now := uint64(time.Now().UnixMilli())
	entry, err := ct.MerkleTreeLeafFromChain(chain, ct.PrecertLogEntryType, now)
	must(err)
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	must(err)
	sct := &ct.SignedCertificateTimestamp{
		SCTVersion: ct.V1,
		LogID:      ct.LogID{KeyID: sha256.Sum256(spki)},
		Timestamp:  now,
	}
	input, err := ct.SerializeSCTSignatureInput(*sct, ct.LogEntry{Leaf: *entry})
	must(err)
	signed, err := cttls.CreateSignature(*key, cttls.SHA256, input)
	must(err)
	sct.Signature = ct.DigitallySigned(signed)
	return sct
}

func (all *services) entry(
	wanted request, leaf *x509.Certificate, payload, signature []byte,
) *protorekor.TransparencyLogEntry {
	envelope := &dsse.Envelope{
		PayloadType: statementType,
		Payload:     base64.StdEncoding.EncodeToString(payload),
		Signatures:  []dsse.Signature{{Sig: base64.StdEncoding.EncodeToString(signature)}},
	}
	at := leaf.NotBefore.Add(time.Minute)
	if wanted.Variant == "late" {
		at = leaf.NotAfter.Add(time.Minute)
	}
	return all.rekor.entry(envelope, leaf, signature, at, wanted.Variant != "no-proof")
}

func (all *services) trustedRoot() json.RawMessage {
	chains, err := all.authority.TrustBundle(context.Background())
	must(err)
	chain := chains[0]
	authority := &root.FulcioCertificateAuthority{
		Root:                chain[len(chain)-1],
		Intermediates:       chain[:len(chain)-1],
		ValidityPeriodStart: all.begin,
		URI:                 "https://fulcio.example.com",
	}
	rekorLog := all.rekor.log(all.begin)
	logs := map[string]*root.TransparencyLog{fmt.Sprintf("%x", rekorLog.ID): rekorLog}
	ctID := keyID(all.ctKey.Public())
	ctLogs := map[string]*root.TransparencyLog{fmt.Sprintf("%x", ctID): {
		BaseURL:             "https://ct.example.com",
		ID:                  ctID,
		ValidityPeriodStart: all.begin,
		HashFunc:            crypto.SHA256,
		PublicKey:           all.ctKey.Public(),
		SignatureHashFunc:   crypto.SHA256,
	}}
	trusted, err := root.NewTrustedRoot(
		root.TrustedRootMediaType01, []root.CertificateAuthority{authority}, ctLogs, nil, logs)
	must(err)
	text, err := trusted.MarshalJSON()
	must(err)
	return text
}

func keyID(key crypto.PublicKey) []byte {
	spki, err := x509.MarshalPKIXPublicKey(key)
	must(err)
	digest := sha256.Sum256(spki)
	return digest[:]
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	return key
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
