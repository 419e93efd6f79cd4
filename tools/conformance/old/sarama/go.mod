module story

go 1.20

require github.com/Shopify/sarama v1.19.0
