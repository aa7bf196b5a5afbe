// Program promql evaluates PromQL over series that it is given, with Prometheus' own engine.
//
// It reads a document from stdin and writes one to stdout, both JSON:
//
//	{"series": [{"labels": {"__name__": "up"}, "values": [1, 1, 0]}], "step": 60,
//	 "queries": ["up == 0"]}
//	{"results": [{"error": "", "series": [{"labels": {…}, "values": [null, null, 0]}]}]}
//
// The samples of a series lie `step` seconds apart, and the queries are evaluated at the same
// moments; null stands for no sample. It exists because promtool, with all of Prometheus, takes twenty minutes to build.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

type series struct {
	Labels map[string]string `json:"labels"`
	Values []*float64        `json:"values"`
}

type request struct {
	Series  []series `json:"series"`
	Step    int64    `json:"step"`
	Queries []string `json:"queries"`
}

type result struct {
	Error  string   `json:"error"`
	Series []series `json:"series"`
}

type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// memory holds series; it is a storage.Queryable and a storage.Querier.
type memory []storage.Series

func (m memory) Querier(_, _ int64) (storage.Querier, error) { return m, nil }
func (memory) Close() error                                  { return nil }

func (memory) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (memory) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (m memory) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := make([]storage.Series, 0)
	for _, one := range m {
		if matches(one.Labels(), matchers) {
			found = append(found, one)
		}
	}
	return &set{found: found, at: -1}
}

func matches(of labels.Labels, matchers []*labels.Matcher) bool {
	for _, matcher := range matchers {
		if !matcher.Matches(of.Get(matcher.Name)) {
			return false
		}
	}
	return true
}

type set struct {
	found []storage.Series
	at    int
}

func (s *set) Next() bool                        { s.at++; return s.at < len(s.found) }
func (s *set) At() storage.Series                { return s.found[s.at] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		os.Exit(1)
	}
}

func run() error {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return fmt.Errorf("stdin: %w", err)
	}
	held, moments := load(asked)
	engine := promql.NewEngine(promql.EngineOpts{
		Logger:     slog.New(slog.DiscardHandler),
		MaxSamples: 10_000_000,
		Timeout:    time.Minute,
	})
	step := time.Duration(asked.Step) * time.Second
	end := time.Unix(int64(moments-1)*asked.Step, 0)
	results := make([]result, len(asked.Queries))
	for i, text := range asked.Queries {
		results[i] = evaluate(engine, held, text, end, step, moments)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"results": results})
}

func load(asked request) (memory, int) {
	var held memory
	moments := 1
	for _, one := range asked.Series {
		samples := make([]chunks.Sample, 0, len(one.Values))
		for i, value := range one.Values {
			if value != nil {
				samples = append(samples, sample{int64(i) * asked.Step * 1000, *value})
			}
		}
		moments = max(moments, len(one.Values))
		held = append(held, storage.NewListSeries(labels.FromMap(one.Labels), samples))
	}
	return held, moments
}

func evaluate(engine *promql.Engine, held memory, text string, end time.Time, step time.Duration, moments int) result {
	query, err := engine.NewRangeQuery(context.Background(), held, nil, text, time.Unix(0, 0), end, step)
	if err != nil {
		return result{Error: err.Error(), Series: []series{}}
	}
	defer query.Close()
	answer := query.Exec(context.Background())
	matrix, err := answer.Matrix()
	if err != nil {
		return result{Error: err.Error(), Series: []series{}}
	}
	found := make([]series, 0, len(matrix))
	for _, one := range matrix {
		values := make([]*float64, moments)
		for _, point := range one.Floats {
			// JSON has no NaN and no infinity, and neither is a value that anybody can read.
			if value := point.F; !math.IsNaN(value) && !math.IsInf(value, 0) {
				values[point.T/step.Milliseconds()] = &value
			}
		}
		found = append(found, series{one.Metric.Map(), values})
	}
	return result{Series: found}
}
