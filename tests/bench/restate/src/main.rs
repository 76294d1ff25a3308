//! One durable step: what an action of ours is measured against.

use restate_sdk::prelude::*;

struct Bench;

#[service]
impl Bench {
    #[handler]
    async fn step(&self, ctx: Context<'_>, text: String) -> Result<String, HandlerError> {
        Ok(ctx.run(|| async move { Ok(text) }).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("usage: aip-bench-restate ADDRESS")?;
    HttpServer::new(Endpoint::builder().bind(Bench).build()).listen_and_serve(address.parse()?).await;
    Ok(())
}
