import BrokerAPI
import Grants
import OAuth

/// `provider.check`: checks of a provider without a user and without a token. It sends new requests, so its findings
/// are those of the next login or refresh.
@BrokerActor
final class ProviderExaminer: Piece {
  let runtime: Runtime
  let accounts: Accounts
  let providers: ProviderDirectory
  let authorizer: Authorizer
  let addresses: CallbackAddresses
  let transport: any Transport

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, authorizer: Authorizer,
    addresses: CallbackAddresses, transport: any Transport
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.authorizer = authorizer
    self.addresses = addresses
    self.transport = transport
  }
}
