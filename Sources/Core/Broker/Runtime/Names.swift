import BrokerAPI
import Grants
import OAuth

/// Characters of a refused name that its error repeats.
private let longestEcho = 64

func accountName(_ text: String) throws(RPCError) -> AccountName {
  guard let name = AccountName(rawValue: text) else {
    throw .invalidParams(
      "params.account: \"\(text.printable(limit: longestEcho))\" is not an account name",
      hint: "A name has 1 to 128 characters of A-Z a-z 0-9 . _ @ + - and no others. `grantctl list` prints the names.")
  }
  return name
}

func providerName(_ text: String) throws(RPCError) -> ProviderName {
  guard let name = ProviderName(rawValue: text) else {
    throw .invalidParams(
      "params.provider: \"\(text.printable(limit: longestEcho))\" is not a provider's name",
      hint: "A name has 1 to 64 characters of A-Z a-z 0-9 . _ @ + - and no others. `grantctl provider list` prints the "
        + "names.")
  }
  return name
}
