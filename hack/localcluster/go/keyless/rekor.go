package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"bytes"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/transparency-dev/merkle/rfc6962"
)

const (
	logName = "rekor.example.com"
	treeID  = 123
	// Of the log's entries one is before ours; the indexes of earlier shards count, too.
	treeSize, indexInTree, indexInLog = 2, 1, 1001
)

// rekor is a transparency log whose second entry is always the one that is asked for.
type rekor struct {
	key *ecdsa.PrivateKey
	// bodies makes the bodies of entries, by Rekor's own types.
	bodies *ca.VirtualSigstore
}

func newRekor() *rekor {
	bodies, err := ca.NewVirtualSigstore()
	must(err)
	return &rekor{newKey(), bodies}
}

func (all *rekor) log(begin time.Time) *root.TransparencyLog {
	return &root.TransparencyLog{
		BaseURL:             "https://" + logName,
		ID:                  keyID(all.key.Public()),
		ValidityPeriodStart: begin,
		HashFunc:            crypto.SHA256,
		PublicKey:           all.key.Public(),
		SignatureHashFunc:   crypto.SHA256,
	}
}

func (all *rekor) entry(
	envelope *dsse.Envelope, leaf *x509.Certificate, sig []byte, at time.Time, proven bool,
) *protorekor.TransparencyLogEntry {
	generated, err := all.bodies.GenerateTlogEntry(leaf, envelope, sig, at.Unix(), false)
	must(err)
	body := generated.TransparencyLogEntry().GetCanonicalizedBody()
	entry := &protorekor.TransparencyLogEntry{
		LogIndex:          indexInLog,
		LogId:             &protocommon.LogId{KeyId: keyID(all.key.Public())},
		KindVersion:       &protorekor.KindVersion{Kind: "dsse", Version: "0.0.1"},
		IntegratedTime:    at.Unix(),
		InclusionPromise:  all.promise(body, at),
		CanonicalizedBody: body,
	}
	if proven {
		entry.InclusionProof = all.proof(body)
	}
	return entry
}

func (all *rekor) promise(body []byte, at time.Time) *protorekor.InclusionPromise {
	text, err := json.Marshal(tlog.RekorPayload{
		Body:           base64.StdEncoding.EncodeToString(body),
		IntegratedTime: at.Unix(),
		LogIndex:       indexInLog,
		LogID:          fmt.Sprintf("%x", keyID(all.key.Public())),
	})
	must(err)
	canonical, err := jsoncanonicalizer.Transform(text)
	must(err)
	signed, err := all.signer().SignMessage(bytes.NewReader(canonical))
	must(err)
	return &protorekor.InclusionPromise{SignedEntryTimestamp: signed}
}

func (all *rekor) proof(body []byte) *protorekor.InclusionProof {
	hasher := rfc6962.DefaultHasher
	before := hasher.HashLeaf([]byte("the entry before"))
	hash := hasher.HashChildren(before, hasher.HashLeaf(body))
	checkpoint, err := util.CreateAndSignCheckpoint(
		context.Background(), logName, treeID, treeSize, hash, all.signer())
	must(err)
	return &protorekor.InclusionProof{
		LogIndex:   indexInTree,
		RootHash:   hash,
		TreeSize:   treeSize,
		Hashes:     [][]byte{before},
		Checkpoint: &protorekor.Checkpoint{Envelope: strings.TrimSpace(string(checkpoint)) + "\n"},
	}
}

func (all *rekor) signer() signature.Signer {
	signer, err := signature.LoadECDSASigner(all.key, crypto.SHA256)
	must(err)
	return signer
}
