import BrokerAPI
import Grants

func accountName(_ text: String) throws(RPCError) -> AccountName {
  guard let name = AccountName(rawValue: text) else {
    throw .invalidParams("params.account: expected 1 to 128 characters of A-Z a-z 0-9 . _ @ + -")
  }
  return name
}

func providerName(_ text: String) throws(RPCError) -> ProviderName {
  guard let name = ProviderName(rawValue: text) else {
    throw .invalidParams("params.provider: expected 1 to 64 characters of A-Z a-z 0-9 . _ @ + -")
  }
  return name
}
