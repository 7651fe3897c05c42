# Compiles two_pl.stan, evaluates its log density at given points and draws from it with rstan.
# Rscript two_pl.R FOLDER: reads data.R and settings.R there, writes draws.bin and found.txt.
suppressPackageStartupMessages(library(rstan))
folder <- commandArgs(trailingOnly = TRUE)[1]
data <- read_rdump(file.path(folder, "data.R"))
settings <- read_rdump(file.path(folder, "settings.R"))

# Debian keeps Boost's headers out of R's package BH.
if (rstan_options("boost_lib") == "") rstan_options(boost_lib = "/usr/include")
started <- proc.time()[["elapsed"]]
model <- stan_model(file.path(folder, "two_pl.stan"), auto_write = FALSE)
compiled <- proc.time()[["elapsed"]] - started

# The density at each column of `points`, in the order of the parameters block.
empty <- suppressMessages(sampling(model, data = data, chains = 0))
agents <- data$n_agents
tasks <- data$n_tasks
densities <- apply(settings$points, 2, function(x) {
  sizes <- c(ability_sd = 1, coordinates = agents - 1, difficulty_mean = 1, difficulty_sd = 1,
             difficulty = tasks, log_discrimination_sd = 1, raw_log_discrimination = tasks)
  values <- split(x, factor(rep(names(sizes), sizes), levels = names(sizes)))
  log_prob(empty, unconstrain_pars(empty, values), adjust_transform = FALSE)
})

started <- proc.time()[["elapsed"]]
fit <- sampling(model, data = data, chains = settings$chains, warmup = settings$tune,
                iter = settings$tune + settings$draws, cores = settings$cores,
                seed = settings$seed, refresh = 0)
wall <- proc.time()[["elapsed"]] - started

names <- c("ability_sd", "ability", "difficulty_mean", "difficulty_sd", "difficulty",
           "log_discrimination_sd", "discrimination")
draws <- rstan::extract(fit, pars = names, permuted = FALSE)  # draw, chain, parameter
writeBin(as.vector(draws), file.path(folder, "draws.bin"))
statistics <- get_sampler_params(fit, inc_warmup = FALSE)
steps <- sum(sapply(statistics, function(s) sum(s[, "n_leapfrog__"])))
divergent <- sum(sapply(statistics, function(s) sum(s[, "divergent__"])))
found <- c(compiled, wall, sum(get_elapsed_time(fit)), steps, divergent, densities)
writeLines(format(found, digits = 17), file.path(folder, "found.txt"))
writeLines(paste(packageVersion("rstan"), stan_version()), file.path(folder, "version.txt"))
