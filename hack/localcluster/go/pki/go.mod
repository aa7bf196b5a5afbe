module localcluster/pki

go 1.24.0
