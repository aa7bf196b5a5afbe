// Nothing is built of it: the CRDs in its example/ are what the chart's objects are tried on.
module localcluster/prometheus-operator

go 1.24.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
